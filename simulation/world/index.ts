export { kinds, planOf, simulate, summary } from './simulate.ts';
