// The bundled Worker beside the guard in workerd (see bundle.ts); it is made at run time.
declare const worker: { fetch(request: Request, env: unknown, context: unknown): Promise<Response> };
export default worker;
