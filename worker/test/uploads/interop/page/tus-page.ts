/** Page with tus-js-client and Uppy, as a page of another origin uses them. */
import Uppy from '@uppy/core';
import Tus from '@uppy/tus';
import { Upload } from 'tus-js-client';
import type { Action, Outcome, PageOptions } from './actions.ts';
import { present } from '../../../../../testkit/present.ts';

/** Chunks that the server has accepted before an upload is paused or terminated. */
const chunksBefore = 2;

async function file(): Promise<File> {
  const bytes = await (await fetch('/file')).arrayBuffer();
  // The clients know a file again by its name, type, size and date.
  return new File([bytes], 'from a page.bin', { type: 'application/octet-stream', lastModified: 1 });
}

let ofTusJs: Upload | undefined;

async function tusJs(action: Action, options: PageOptions): Promise<Outcome> {
  const input = await file();
  return await new Promise((resolve, reject) => {
    let accepted = 0;
    const upload = ofTusJs ?? new Upload(input, { ...options, metadata: { filename: input.name } });
    const stop = async (): Promise<void> => {
      await upload.abort(action === 'terminate');
      resolve({ url: upload.url, isFinished: false });
    };
    Object.assign(upload.options, {
      onSuccess: () => resolve({ url: upload.url, isFinished: true }),
      onError: reject,
      onChunkComplete() {
        accepted += 1;
        if (accepted !== chunksBefore || action === 'upload' || action === 'continue') return;
        stop().catch(reject);
      },
    });
    if (action === 'continue' && ofTusJs === undefined)
      upload.findPreviousUploads().then(([previous]) => {
        if (previous === undefined) return reject(new Error('no earlier upload was found'));
        upload.resumeFromPreviousUpload(previous);
        upload.start();
      }, reject);
    else upload.start();
    ofTusJs = action === 'pause' ? upload : undefined;
  });
}

let ofUppy: Uppy | undefined;

async function uppy(action: Action, options: PageOptions): Promise<Outcome> {
  const input = await file();
  return await new Promise((resolve, reject) => {
    let accepted = 0;
    const isPaused = ofUppy !== undefined;
    const instance = ofUppy ?? new Uppy().use(Tus, { ...options });
    ofUppy = action === 'pause' ? instance : undefined;
    instance.on('upload-success', (_, { uploadURL = null }) => resolve({ url: uploadURL, isFinished: true }));
    instance.on('upload-error', (_, error) => reject(new Error(error.message)));
    if (isPaused) return instance.resumeAll();
    const id = instance.addFile(input);
    const plugin = present(instance.getPlugin('Tus'));
    plugin.setOptions({
      onChunkComplete() {
        accepted += 1;
        if (accepted !== chunksBefore || action === 'upload' || action === 'continue') return;
        resolve({ url: plugin.uploaders[id]?.url ?? null, isFinished: false });
        if (action === 'pause') instance.pauseAll();
        else instance.removeFile(id);
      },
    });
    void instance.upload().catch(reject);
  });
}

Object.assign(globalThis, { clients: { tusJs, uppy } });
