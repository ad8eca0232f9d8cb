/** The states of a document, of which one is shown, in the words of the reader. */
import { wordsFor } from './words/catalogue.ts';
import type { Word, Words } from './words/en.ts';

/** The address of the service that this page belongs to, as links name it. */
export const root = new URL('.', document.baseURI).href;

/** The words of this page's reader. */
export const words: Words = wordsFor(navigator.languages);

/** Locale for sizes and dates in that language: `en-GB`, for example. */
export const locale =
  navigator.languages.find((each) => each.toLowerCase().startsWith(words.language)) ?? words.language;

/** An element of the document by its ID, and of a kind. */
export function byId<E extends HTMLElement>(id: string, kind: new () => E): E {
  const element = document.getElementById(id);
  if (!(element instanceof kind)) throw new TypeError(`the document has no ${id}`);
  return element;
}

/** Makes a button do something. @returns it */
export function onClick(id: string, act: () => unknown): HTMLButtonElement {
  const button = byId(id, HTMLButtonElement);
  button.addEventListener('click', () => void act());
  return button;
}

/** Does what a form is for, in place of the browser. */
export function onSubmit(id: string, act: () => unknown): void {
  byId(id, HTMLFormElement).addEventListener('submit', (event) => {
    event.preventDefault();
    act();
  });
}

/** Sets every text with `data-word` below a node. */
function fillWords(below: ParentNode): void {
  for (const element of below.querySelectorAll<HTMLElement>('[data-word]'))
    element.textContent = words[element.dataset['word'] as Word];
}

/** Copies a template, with its texts, and gives the way to its elements. */
export function partsOf(template: string): <E extends HTMLElement>(selector: string, kind: new () => E) => E {
  const copy = byId(template, HTMLTemplateElement).content.cloneNode(true) as DocumentFragment;
  fillWords(copy);
  return (selector, kind) => {
    const found = copy.querySelector(selector);
    if (!(found instanceof kind)) throw new TypeError(`the document has no ${selector}`);
    return found;
  };
}

/** Sets the language, its direction and all of its fixed texts. */
export function translate(): void {
  document.documentElement.lang = words.language;
  document.documentElement.dir = words.direction;
  fillWords(document);
  document.querySelector('nav')?.setAttribute('aria-label', words.nav);
  // The first page of the list has a second address.
  const here = location.pathname.replace(/\/send$/, '/');
  for (const link of document.querySelectorAll<HTMLAnchorElement>('nav a'))
    if (link.pathname === here) link.setAttribute('aria-current', 'page');
}

/** Leaves out of the header what needs an API key: for who is here by a link. */
export function hideAccountPages(): void {
  for (const item of document.querySelectorAll<HTMLElement>('nav [data-account]')) item.hidden = true;
}

let isFirst = true;

/**
 * Shows one section. Its heading names the tab, and gets the focus, but for the first one. What was
 * read out is of the section before.
 */
export function show(id: string): void {
  byId('status', HTMLParagraphElement).textContent = '';
  for (const section of document.querySelectorAll('main > section'))
    (section as HTMLElement).hidden = section.id !== id;
  const heading = byId(`${id}-title`, HTMLHeadingElement);
  setTitle();
  if (!isFirst) heading.focus();
  isFirst = false;
}

/** Names the tab: how far something is, or else what the page shows. */
export function setTitle(text = document.querySelector('main > section:not([hidden]) h1')?.textContent): void {
  document.title = `${text} – Sealpin`;
}

/**
 * Moves the focus to the first button of a row, or of the nearest one that has any, or elsewhere.
 */
export function focusRow(list: HTMLElement, index: number, otherwise: HTMLElement): void {
  const buttons = [...list.querySelectorAll('li')].map((row) => row.querySelector<HTMLElement>(visibleButton));
  const next = buttons.slice(index).find((each) => each !== null) ?? buttons.findLast((each) => each !== null);
  (next ?? otherwise).focus();
}
const visibleButton = 'button:not([hidden])';

/** Tells whether the focus is nowhere else: a control that is disabled loses it. */
export const hasFocusOf = (control: HTMLElement): boolean =>
  document.activeElement === control || document.activeElement === document.body;

/** Joins what there is of some texts. */
export const dotted = (...texts: (string | undefined)[]): string =>
  texts.filter((each) => each !== undefined).join(' · ');

/** Letters of writings from right to left. */
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/;

/** Joins names, of which none turns what is around it. */
export const joinedNames = (names: readonly string[]): string =>
  names.map((name) => (rightToLeft.test(name) ? `\u2068${name}\u2069` : name)).join(', ');

/** Sets a text, or hides its element. */
export function setText(element: HTMLElement, text: string | undefined): void {
  element.textContent = text ?? '';
  element.hidden = text === undefined;
}

/** Pause before progress is read out again, in ms. */
const statusMs = 5_000;
let announcedAt = -Infinity;

/** Reads a text out; progress only where nothing was read out just now. */
export function announce(text: string, { isProgress = false } = {}): void {
  if (isProgress && performance.now() - announcedAt < statusMs) return;
  announcedAt = performance.now();
  byId('status', HTMLParagraphElement).textContent = text;
}
