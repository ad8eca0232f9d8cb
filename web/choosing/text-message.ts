/** A text that is sent without a file: it travels as one, which every receiver can save. */

/** The name by which a receiver's page knows that it may show the file at once. */
export const messageName = 'message.txt';

/** The file of a text. */
export function messageFile(text: string): File {
  return new File([text], messageName, { type: 'text/plain' });
}
