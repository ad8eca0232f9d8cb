/** The name of a chosen file, beside a button that stands for the browser's own field. */
import { byId } from '../states.ts';

/** Starts the `<output>` of a field for one file. Its ID is that of the field, and `-name`. */
export function startChosenName(id: string): void {
  const [field, name] = [byId(id, HTMLInputElement), byId(`${id}-name`, HTMLOutputElement)];
  field.addEventListener('change', () => {
    name.value = field.files?.[0]?.name ?? '';
  });
}
