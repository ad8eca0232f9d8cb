/**
 * The document of `/inbox`: what was handed over to the inboxes of an account. The private key is
 * read from its file, and stays in the memory of the engine.
 */
import { dayText, sizeText } from '../amounts.ts';
import { askForKey, failureTextOrForm, type KeyRequest } from '../api-key-form.ts';
import { startDropZone } from '../choosing/drop-zone.ts';
import { startReceiving } from '../engine-client.ts';
import { attempt } from '../attempt.ts';
import { describeFailure } from '../failure-words.ts';
import { removeLeftBehind } from '../kept/left-behind.ts';
import type { DeliveryView, FileToSend } from '../protocol.ts';
import { showOpened } from '../receiving/opened-files.ts';
import { byId, dotted, focusRow, hasFocusOf, locale, onClick, partsOf, show, translate, words } from '../states.ts';

const deliveryEngine = startReceiving();
/** The page of the list that was not seen yet; undefined after the last one. */
let next: { readonly cursor?: string } | undefined;

/** Whether the engine has a private key. */
let isUnlocked = false;

/** Asks for a key, also where the one before has ended: then the list begins again. */
const keyRequest: KeyRequest = {
  text: words.signingInbox,
  scopes: ['read'],
  engine: deliveryEngine,
  go: () => (isUnlocked ? void showFirstPage() : show('reading')),
};

const more = onClick('deliveries-more', showPage);

/** The largest file that is read as a private key, in bytes. */
const keyFileBytes = 64 * 1024;

async function unlock(file: FileToSend | undefined): Promise<void> {
  if (!(file instanceof File)) return;
  const work = async (): Promise<void> => {
    await deliveryEngine.call('unlock', { keys: await file.slice(0, keyFileBytes).text() });
    isUnlocked = true;
    await showFirstPage();
  };
  await attempt('unlock-error', work, { textOf: (failure) => describeFailure(failure, words).text });
}

function showFirstPage(): Promise<void> {
  byId('delivery-list', HTMLUListElement).replaceChildren();
  next = {};
  byId('deliveries-text', HTMLParagraphElement).textContent = words.busy;
  show('deliveries');
  return showPage();
}

async function showPage(): Promise<void> {
  const list = byId('delivery-list', HTMLUListElement);
  const isAsked = document.activeElement === more;
  const work = async (): Promise<void> => {
    const { deliveries, cursor } = await deliveryEngine.call('deliveries', { cursor: next?.cursor });
    const before = list.children.length;
    list.append(...deliveries.map(deliveryRow));
    next = cursor === undefined ? undefined : { cursor };
    // Where none of it opens there is nothing else to be pressed.
    const otherwise = next === undefined ? byId('deliveries-title', HTMLHeadingElement) : more;
    if (isAsked && hasFocusOf(more)) focusRow(list, before, otherwise);
  };
  const textOf = (failure: unknown): string | undefined => failureTextOrForm(failure, keyRequest);
  await attempt('deliveries-error', work, { button: more, textOf });
  more.hidden = next === undefined;
  const emptyText = more.hidden ? words.deliveriesNone : '';
  byId('deliveries-text', HTMLParagraphElement).textContent =
    list.children.length === 0 ? emptyText : words.newestFirst;
}

function deliveryRow(delivery: DeliveryView): HTMLElement {
  const { id, receivedAt } = delivery;
  const part = partsOf('delivery');
  const name = part('bdi', HTMLElement);
  name.id = `delivery-${id}`;
  name.textContent = deliveryName(delivery);
  const about = 'problem' in delivery ? undefined : deliveryText(delivery);
  part('.size', HTMLElement).textContent = dotted(dayText(receivedAt, locale), about);
  const open = part('.open', HTMLButtonElement);
  open.id = `open-${id}`;
  open.hidden = 'problem' in delivery;
  open.setAttribute('aria-labelledby', `${open.id} ${name.id}`);
  open.addEventListener('click', () => void openDelivery(id));
  return part('li', HTMLLIElement);
}

function deliveryName(delivery: DeliveryView): string {
  if (!('problem' in delivery)) return delivery.from ?? words.deliveryUnnamed;
  return { foreign: words.deliveryForeign, absent: words.deliveryGone, other: words.problemTitle }[delivery.problem];
}

function deliveryText({ files }: Extract<DeliveryView, { files: unknown }>): string {
  const total = files.reduce((sum, { size }) => sum + size, 0);
  return words.filesOf(files.length, sizeText(total, locale));
}

async function openDelivery(id: string): Promise<void> {
  // It can be opened again, so nothing is lost with the page.
  showOpened(deliveryEngine, await deliveryEngine.call('openDelivery', { id }), () => undefined);
}

translate();
void removeLeftBehind();
const chooser = byId('private-key', HTMLInputElement);
chooser.addEventListener('change', () => void unlock(chooser.files?.[0]).then(() => (chooser.value = '')));
startDropZone({ isOpen: () => !byId('reading', HTMLElement).hidden, take: ([file]) => void unlock(file) });
const back = onClick('opened-back', () => show('deliveries'));
back.hidden = false;
back.textContent = words.deliveriesTitle;
askForKey(keyRequest);
