/** The end of `npm run setup`: a link that is made, opened and taken back. */
import { connect, receive } from '../client/index.ts';
import { isSealpinError } from '../shared/errors.ts';
import { failure, fine, wrong, type Finding } from './finding.ts';

const setupText = 'This link was made by npm run setup, to see whether the service works.';

/**
 * Sends a small file with the first API key, receives it by its link, and takes both back.
 * @param url of the service
 */
export async function firstLink(url: string, apiKey: string): Promise<Finding> {
  try {
    const service = connect({ service: url, apiKey });
    const { link, share, files } = await service.send(
      { name: 'setup.txt', source: new TextEncoder().encode(setupText) },
      { expiresAt: new Date(Date.now() + 3_600_000), opens: 1 },
    );
    try {
      const received = await receive(link);
      const [file] = received.files;
      const content = file === undefined ? '' : await (await file.open()).text();
      if (content !== setupText)
        return wrong(`the link of ${url} returned another file than was sent`, 'npm run doctor');
    } finally {
      await service.unshare(share.id);
      for (const { fileId } of files) await service.delete(fileId);
    }
    return fine(`a file was sent, received by its link ${new URL(link).origin}/s#…, and deleted`);
  } catch (error) {
    // The account's owner may have revoked the first key, or let it do less.
    if (isSealpinError(error, 'forbidden', 'unauthorized')) return fine(`no link was sent: ${error.message}`);
    return failure(
      error,
      'npm run doctor says what is wrong; then run npm run setup again',
      'no link could be sent and received: ',
    );
  }
}
