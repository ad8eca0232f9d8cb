import { equal, ok, type Tool } from '../../../testkit/assertions.ts';
import { isWebKit } from '../../../testkit/browsers/engine.ts';
import { sendsStreams } from '../../request-body.ts';

/** A request as Firefox makes it: the stream becomes a text, and nobody asks for `duplex`. */
class TextRequest extends Request {
  constructor(url: string, { body, method }: { body: ReadableStream; method: string }) {
    const headers = { 'Content-Type': 'text/plain;charset=UTF-8' };
    super(url, { method, headers, body: Object.prototype.toString.call(body) });
  }
}

/** A request as Safari makes it: a stream is refused. */
class RefusingRequest extends Request {
  constructor(url: string) {
    super(url);
    throw new DOMException('ReadableStream uploading is not supported', 'NotSupportedError');
  }
}

/** Tests of what engines do with streams as bodies. */
export function requestBodies(tool: Tool): void {
  tool.test('a stream counts as a body where the engine sends it, and not its name', async () => {
    const stream = new Blob(['x']).stream();
    const init = { method: 'POST', body: stream, duplex: 'half' };
    const text = await new Request('https://sealpin.invalid/', init).text();
    // WebKit has no `duplex`: a request of it holds a stream, which `fetch` then refuses to send.
    equal(sendsStreams(), text === 'x' && !isWebKit);
  });

  tool.test('engines that send a text instead, and those that refuse, are recognized', async () => {
    const init = { method: 'POST', body: new ReadableStream() };
    equal(await new TextRequest('https://sealpin.invalid/', init).text(), '[object ReadableStream]');
    ok(!sendsStreams(TextRequest as unknown as typeof Request), 'a text');
    ok(!sendsStreams(RefusingRequest as unknown as typeof Request), 'a refusal');
  });
}
