/** Requests to many objects, a batch at a time, so that no number of them floods a service. */

/**
 * Asks for each item, some at once.
 *
 * @param isEnough given all answers after each batch: whether to leave out the rest
 * @returns the answers in the order of the items
 * @throws what `ask` throws, after which no further batch is begun
 */
export async function askInBatches<Item, Answer>(
  items: readonly Item[],
  ask: (item: Item) => Promise<Answer>,
  isEnough: (answers: readonly Answer[]) => boolean = () => false,
  atOnce = 32,
): Promise<Answer[]> {
  const answers: Answer[] = [];
  for (let at = 0; at < items.length && !isEnough(answers); at += atOnce)
    answers.push(...(await Promise.all(items.slice(at, at + atOnce).map((item) => ask(item)))));
  return answers;
}
