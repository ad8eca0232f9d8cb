/** Warnings about symbolic links of a folder. */

/** The links that lead out of a folder: how many, and the first one. */
export class LeavingLinks {
  #first = '';
  #count = 0;

  add(path: string, target: string): void {
    if (this.#count === 0) this.#first = `${path} -> ${target}`;
    this.#count += 1;
  }

  /** @param folder as the user named it @returns undefined where there are none */
  warning(folder: string): string | undefined {
    if (this.#count === 0) return undefined;
    const more = this.#count === 1 ? '' : ` (and ${this.#count - 1} more)`;
    return `symbolic links may lead out of ${folder}: ${this.#first}${more}`;
  }
}
