/** The button of a file that shows it in the page, and hides it again. */
import { EngineError, type Engine } from '../engine-client.ts';
import { describeFailure } from '../failure-words.ts';
import type { FileView, Receiving } from '../protocol.ts';
import { announce, words } from '../states.ts';
import { NotAsNamed, previewOf, shownAs } from './preview.ts';

/** Starts the button of a file. @returns shows the file, if it can be shown */
export function startLooking(
  engine: Engine<Receiving>,
  file: FileView,
  { button, place }: { button: HTMLButtonElement; place: HTMLElement },
): () => Promise<void> {
  const shown = shownAs(file);
  button.hidden = shown === undefined;
  let stop: AbortController | undefined;

  async function look(): Promise<void> {
    if (shown === undefined || stop !== undefined) return;
    stop = new AbortController();
    const { signal } = stop;
    set(words.lookAway, [paragraph(words.opening)]);
    try {
      const elements = await previewOf(engine, file, { shown, signal });
      if (!signal.aborted) set(words.lookAway, elements);
    } catch (error) {
      if (signal.aborted) return;
      const isOfEngine = error instanceof EngineError;
      const text = isOfEngine ? describeFailure(error, words).text : words.notShown;
      if (!isOfEngine && !(error instanceof NotAsNamed)) reportError(error);
      announce(text);
      // What the engine did not get may be there the next time.
      if (isOfEngine) stop = undefined;
      set(stop === undefined ? words.look : words.lookAway, [paragraph(text)]);
    }
  }

  function set(label: string, elements: readonly HTMLElement[]): void {
    button.textContent = label;
    button.setAttribute('aria-expanded', String(label === words.lookAway));
    place.replaceChildren(...elements);
    place.hidden = elements.length === 0;
  }

  button.addEventListener('click', () => {
    if (stop === undefined) {
      void look();
    } else {
      stop.abort();
      stop = undefined;
      set(words.look, []);
    }
  });
  return look;
}

function paragraph(text: string): HTMLElement {
  const element = document.createElement('p');
  element.className = 'state';
  element.textContent = text;
  return element;
}
