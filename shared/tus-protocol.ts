/** The protocol of resumable uploads: tus 1.0.0 (https://tus.io/protocols/resumable-upload). */

export const tusVersion = '1.0.0';

/** The type of a body with bytes of a file. */
export const chunkType = 'application/offset+octet-stream';
