export { planOf, simulate } from './simulate.ts';
