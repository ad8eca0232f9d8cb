/** The states of the pages, and the way to each. */
import { handOver } from '../../../client/index.ts';
import { serviceHttp } from '../../../client/service-http.ts';
import { shareParcel } from '../../../client/sharing.ts';
import { parcelSigner } from '../../../shared/crypto/index.ts';
import { png, wav } from '../sender.ts';
import { files, type Journey } from './journey.ts';

type State = { readonly name: string; go(journey: Journey): Promise<void> };

const recipient = 'age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj';
const keyFile = (text: string) => ({ name: 'private.key', mimeType: 'text/plain', buffer: Buffer.from(text) });
const text = (content: string) => new TextEncoder().encode(content);

async function signed(journey: Journey, seed: number): Promise<void> {
  const { receiver } = journey;
  const file = await receiver.store({ name: 'plans.pdf', bytes: new Uint8Array(5000) });
  const http = serviceHttp({ service: receiver.root, apiKey: receiver.apiKey });
  const signer = parcelSigner(new Uint8Array(32).fill(seed));
  const about = { parcel: { files: [file], from: 'Ann', note: 'The plans, as agreed.' }, files: [] };
  const { link } = await shareParcel(http, about, {}, { recipients: [], signer });
  await journey.page.goto('about:blank');
  await journey.go(link);
  await journey.click('#open-button');
  await journey.page.locator('#signed:not([hidden])').waitFor();
}

async function known(journey: Journey): Promise<void> {
  await signed(journey, 3);
  await journey.click('#know > summary');
  await journey.fill('#know-name', 'Ann');
  await journey.page.keyboard.press('Enter');
  await journey.page.locator('#know').waitFor({ state: 'hidden' });
}

async function listed(journey: Journey): Promise<void> {
  await journey.signIn('send');
  for (const count of [1, 3]) {
    await journey.send(count);
    await journey.page.locator('#keep-link').check();
    await journey.page.locator('#keep-said:not([hidden])').waitFor();
    if (count === 1) await journey.click('#sent-more');
  }
  journey.page.on('dialog', (dialog) => void dialog.accept());
  await journey.go('links');
  await journey.page.locator('#kept-links .take:visible').nth(1).waitFor();
}

async function stored(journey: Journey): Promise<void> {
  const { connection } = await journey.account();
  await connection.put('sealed before it came', { mode: 'plain' });
  for (const name of ['plans.pdf', 'a rather long name of a report on everything that we did last year.docx'])
    await connection.put(new Uint8Array(748_000), { name });
  // A day later, some more.
  await journey.page.clock.setFixedTime(Date.now() + 86_400_000);
  await journey.signIn('files');
  await journey.page.locator('#stored-files li').nth(2).waitFor();
}

async function guest(journey: Journey): Promise<void> {
  await journey.go(await journey.invitation());
  await journey.shows('compose');
}

async function deliveries(journey: Journey): Promise<void> {
  const { link, privateKey } = await journey.inbox();
  await handOver(link, [new File(['x'.repeat(5000)], 'receipt.pdf')], { from: 'Ann', note: 'As agreed' });
  await handOver(link, [new File(['x'], 'x'), new File(['y'], 'y')], {});
  const other = await journey.inbox();
  await handOver(other.link, [new File(['x'], 'x')], { from: 'Eve' });
  await journey.signIn('inbox');
  await journey.page.locator('#private-key').setInputFiles(keyFile(privateKey));
  await journey.page.locator('#delivery-list li').nth(2).waitFor();
}

const receiving: State[] = [
  { name: 'open', go: (j) => j.go('open') },
  { name: 'wait', go: (j) => j.stop('**/v1/shares/*').then(async () => j.go(await j.receiver.share(files))) },
  { name: 'asked', go: async (j) => j.go(await j.receiver.share(files)).then(() => j.shows('asked')) },
  {
    name: 'asked-password',
    async go(j) {
      const link = await j.receiver.share(files, { password: 'pw', opens: 1 });
      await j.go(link.replace('#', '%23'));
      await j.fill('#password', 'wrong');
      await j.page.keyboard.press('Enter');
      await j.page.locator('#open-error:not([hidden])').waitFor();
    },
  },
  {
    name: 'asked-key',
    async go(j) {
      await j.go(`b#${await j.receiver.storeContainer(text('x'), { keys: recipient })}`);
      await j.shows('asked');
    },
  },
  { name: 'opened-one', go: (j) => j.open(files.slice(0, 1)) },
  {
    name: 'opened-used-up',
    async go(j) {
      await j.open(files, { opens: 1, note: 'The plans, as agreed.\nSee you on Monday!', from: 'Ann' });
      await Promise.all([j.page.waitForEvent('download'), j.click('#save-0')]);
      await j.page.locator('#files [data-state=done]').waitFor();
      await j.stop('**/ipfs/**');
      await j.click('#save-1');
      await j.page.locator('#files progress:not([hidden])').waitFor();
    },
  },
  {
    name: 'opened-failed',
    async go(j) {
      const gone = await j.receiver.store({ name: 'gone.bin', bytes: text('gone') });
      await j.go(await j.receiver.shareParcel({ files: [{ ...gone, size: 5 }, gone] }));
      await j.click('#open-button');
      await j.click('#save-0');
      await j.page.locator('#files [data-state=failed]').waitFor();
    },
  },
  {
    name: 'opened-message',
    async go(j) {
      await j.open([{ name: 'message.txt', bytes: text('The code of the door is 4711.\nSee you at eight!') }]);
      await j.page.locator('.preview pre').waitFor();
    },
  },
  {
    name: 'opened-shown',
    async go(j) {
      const folder = { name: 'photos.tar', bytes: new Uint8Array(5000) };
      await j.open([{ name: 'dot.png', bytes: png }, { name: 'tone.wav', bytes: wav() }, folder]);
      for (const index of [0, 1]) await j.click(`#look-${index}`);
      await j.page.locator('.preview audio').waitFor();
    },
  },
  {
    name: 'opened-offline',
    async go(j) {
      await j.open(files.slice(0, 1));
      await j.page.context().setOffline(true);
      await j.click('#save-0');
      await j.page.getByText(/Waiting for the|Warten auf/).waitFor();
    },
  },
  { name: 'signed-unknown', go: (j) => signed(j, 3).then(() => j.click('#know > summary')) },
  { name: 'signed-known', go: known },
  { name: 'signed-other', go: (j) => known(j).then(() => signed(j, 4)) },
  {
    name: 'problem-taken-back',
    async go(j) {
      const link = await j.receiver.share(files);
      await j.receiver.revoke(link);
      await j.go(link);
      await j.shows('problem');
    },
  },
  { name: 'problem-incomplete', go: (j) => j.go('s#1abc').then(() => j.shows('problem')) },
  { name: 'problem-elsewhere', go: (j) => elsewhere(j) },
];

async function elsewhere(j: Journey): Promise<void> {
  await j.go('open');
  const link = (await j.receiver.share(files)).replace(/^http:\/\/[^/]+/, 'https://files.example.com');
  await j.fill('#link', link);
  await j.page.keyboard.press('Enter');
  await j.shows('problem');
}

const sending: State[] = [
  { name: 'home', go: (j) => j.go('') },
  {
    name: 'compose-filled',
    async go(j) {
      await j.go('');
      await j.choose();
      await j.click('#terms > summary');
      await j.page.locator('#by-password').check();
      await j.click('#compose-button');
    },
  },
  {
    name: 'compose-refused',
    async go(j) {
      await j.signIn('send');
      await j.choose(1);
      await j.page.locator('#choose').setInputFiles({ ...keyFile('x'), name: 'gpj\u202e.exe' });
      await j.click('#terms > summary');
      await j.page.locator('#by-keys').check();
      await j.fill('#keys', 'age1x');
      await j.click('#compose-button');
      await j.page.locator('#compose-error:not([hidden])').waitFor();
    },
  },
  {
    name: 'dropping',
    async go(j) {
      await j.go('');
      await j.page.evaluate(() => {
        const event = new DragEvent('dragenter', { bubbles: true });
        Object.defineProperty(event, 'dataTransfer', { value: { types: ['Files'] } });
        document.body.dispatchEvent(event);
      });
    },
  },
  {
    name: 'signing-wrong',
    async go(j) {
      await j.go('send');
      await j.fill('#api-key', 'sp_wrong');
      await j.page.keyboard.press('Enter');
      await j.page.locator('#sign-in-error:not([hidden])').waitFor();
    },
  },
  { name: 'signing', go: (j) => j.go('send').then(() => j.shows('signing')) },
  {
    name: 'sending',
    async go(j) {
      await j.signIn('send');
      await j.stop('**/v1/shares');
      await j.choose();
      await j.click('#compose-button');
      await j.shows('sending');
    },
  },
  { name: 'sent', go: (j) => j.signIn('send').then(async () => void (await j.send())) },
  { name: 'sent-change', go: (j) => j.signIn('send').then(async () => j.send().then(() => j.click('#change'))) },
  {
    name: 'taken',
    async go(j) {
      await j.signIn('send');
      await j.send();
      await j.click('#take-back');
      await j.shows('taken');
    },
  },
  {
    name: 'sent-kept',
    async go(j) {
      await j.signIn('send');
      await j.click('#terms > summary');
      await j.page.locator('#by-password').check();
      await j.fill('#password', 'violet anchor');
      await j.send(1);
      await j.click('#copy');
      await j.page.locator('#keep-link').check();
      await j.page.locator('#keep-said:not([hidden])').waitFor();
    },
  },
  { name: 'guest', go: guest },
  {
    name: 'guest-ended',
    async go(j) {
      const { connection } = await j.account();
      const { link, key } = await connection.invitation.create({ label: 'Ann' });
      await connection.invitation.revoke(key.id);
      await j.go(link);
      await j.shows('problem');
    },
  },
  {
    name: 'guest-links',
    async go(j) {
      await guest(j);
      await j.send(1);
      await j.click('#sent-more');
      await j.shows('compose');
      await j.click('#compose-back');
      await j.page.locator('#made-links li').waitFor();
    },
  },
  { name: 'drop', go: async (j) => j.go((await j.inbox()).link).then(() => j.shows('compose')) },
  {
    name: 'handed',
    async go(j) {
      await j.go((await j.inbox()).link);
      await j.shows('compose');
      await j.choose(1);
      await j.click('#compose-button');
      await j.shows('handed');
    },
  },
  {
    name: 'closed',
    async go(j) {
      const { link, close } = await j.inbox();
      await close();
      await j.go(link);
      await j.shows('problem');
    },
  },
];

const owning: State[] = [
  { name: 'files', go: stored },
  { name: 'files-none', go: (j) => j.signIn('files') },
  { name: 'deleting', go: (j) => stored(j).then(() => j.click('#stored-files .delete')) },
  { name: 'links', go: listed },
  {
    name: 'links-ended',
    async go(j) {
      await listed(j);
      await j.click('#kept-links .take');
      await j.click('#confirming-yes');
      await j.fill('#key-field', (await j.account()).apiKey);
      await j.page.locator('#key-keep').check();
      await j.page.keyboard.press('Enter');
      await j.page.locator('#kept-links .forget:visible').waitFor();
    },
  },
  { name: 'links-none', go: (j) => j.go('links') },
  { name: 'links-taking', go: (j) => listed(j).then(() => j.click('#kept-links .take')) },
  {
    name: 'links-key',
    async go(j) {
      await listed(j);
      await j.click('#kept-links .take');
      await j.click('#confirming-yes');
      await j.page.locator('#key[open]').waitFor();
    },
  },
  { name: 'links-forgetting', go: (j) => listed(j).then(() => j.click('#forget')) },
  { name: 'inbox-key', go: (j) => j.signIn('inbox') },
  { name: 'inbox', go: deliveries },
];

export const states: readonly State[] = [...receiving, ...sending, ...owning];
