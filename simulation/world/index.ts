export { summary } from './coverage.ts';
export { planOf } from './planning.ts';
export { simulate } from './simulate.ts';
