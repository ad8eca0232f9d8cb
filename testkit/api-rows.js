// The rows of the Worker's routes, for tests that are not compiled with the types of Workers.
export { codesOf } from '../worker/openapi/route.ts';
export { routes } from '../worker/routes/table.ts';
