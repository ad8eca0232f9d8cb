/** Steps on the storage of an object, whose results are the same in workerd and in a simulation. */

/** A storage, as far as the steps need it. */
export type ProbedStorage = {
  sql: { exec(query: string, ...values: unknown[]): { toArray(): unknown[]; one(): unknown } };
  transactionSync<T>(work: () => T): T;
  getAlarm(): Promise<number | null>;
  setAlarm(time: number): Promise<void>;
  deleteAlarm(): Promise<void>;
  deleteAll(): Promise<void>;
};

/** Does each step. @returns what it gives, or that it throws, as JSON */
export async function resultsOf(storage: ProbedStorage): Promise<Record<string, unknown>> {
  const { sql } = storage;
  const all = (query: string, ...values: unknown[]): unknown => sql.exec(query, ...values).toArray();
  const steps: Record<string, () => unknown> = {
    'several statements': () =>
      all('CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB, d REAL); CREATE INDEX i ON t (b);'),
    'a row with bytes': () =>
      all('INSERT INTO t VALUES (?, ?, ?, ?) RETURNING *', 1, 'é', new Uint8Array([0, 255]), 1.5),
    'bytes as a buffer': () => all('INSERT INTO t (c) VALUES (?) RETURNING a, c', new Uint8Array([7, 8, 9]).buffer),
    'a part of a buffer': () =>
      all('INSERT INTO t (c) VALUES (?) RETURNING a, c', new Uint8Array([1, 2, 3, 4]).subarray(1, 3)),
    'no bytes and null': () => all('INSERT INTO t (b, c) VALUES (?, ?) RETURNING b, c', null, new Uint8Array()),
    'numbers beyond 32 bits': () =>
      all('SELECT ? AS a, ? + 1 AS b, max(?, 2) AS c', 9_007_199_254_740_991, 4_294_967_296, 1),
    'a number in a column of text': () => all('UPDATE t SET b = ? WHERE a = 1 RETURNING b', 12),
    'numbered parameters': () => all('SELECT ?2 AS b, ?1 AS a, ?2 AS c', 'x', 'y'),
    'a limit': () => all('SELECT a FROM t ORDER BY a LIMIT ?', 2),
    'no row as the only one': () => sql.exec('SELECT * FROM t WHERE a = 99').one(),
    'two rows as the only one': () => sql.exec('SELECT a FROM t').one(),
    'one row': () => sql.exec('SELECT count(*) AS n FROM t').one(),
    'a row twice': () => all('INSERT INTO t (a) VALUES (1)'),
    'a row once': () => all('INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING RETURNING a'),
    'a statement with a comment': () => all('SELECT 1 AS one -- and no more'),
    'a semicolon at the end': () => all('SELECT 1 AS one;'),
    'an undefined table': () => all('SELECT * FROM nowhere'),
    'a transaction': () => storage.transactionSync(() => all('INSERT INTO t (b) VALUES (?) RETURNING b', 'kept')),
    'a transaction that throws': () =>
      storage.transactionSync(() => {
        all('INSERT INTO t (b) VALUES (?)', 'lost');
        throw new Error('enough');
      }),
    'a transaction in another one': () =>
      storage.transactionSync(() => {
        all('INSERT INTO t (b) VALUES (?)', 'outer');
        try {
          storage.transactionSync(() => {
            all('INSERT INTO t (b) VALUES (?)', 'inner');
            throw new Error('enough');
          });
        } catch {
          return all(`SELECT b FROM t WHERE b IN ('outer', 'inner', 'lost', 'kept') ORDER BY a`);
        }
        return undefined;
      }),
    'a new column': () => all('ALTER TABLE t ADD COLUMN e TEXT'),
    'all columns after that': () => all('SELECT * FROM t WHERE a = 1'),
    'names of tables': () => all(`SELECT name FROM sqlite_master WHERE name IN ('t', 'i') ORDER BY name`),
    'no alarm': () => storage.getAlarm(),
    'an alarm': async () => (await storage.setAlarm(7_258_118_400_000), await storage.getAlarm()),
    'an alarm that is taken back': async () => (await storage.deleteAlarm(), await storage.getAlarm()),
    'nothing left': async () => (
      await storage.deleteAll(),
      all(`SELECT name FROM sqlite_master WHERE name IN ('t', 'i')`)
    ),
  };
  const results: Record<string, unknown> = {};
  for (const [name, step] of Object.entries(steps)) {
    try {
      results[name] = readable(await step());
    } catch {
      results[name] = 'throws';
    }
  }
  return results;
}

/** Makes bytes a list with the name of their type. */
function readable(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value ?? null, (_, each: unknown) => {
      if (each instanceof ArrayBuffer) return { buffer: [...new Uint8Array(each)] };
      return each instanceof Uint8Array ? { array: [...each] } : each;
    }),
  ) as unknown;
}
