/** Hides Node's warning that node:sqlite is experimental. Call it before anything imports that. */
export function quietSqlite(): void {
  const others = process.listeners('warning');
  process.removeAllListeners('warning');
  process.on('warning', (warning) => {
    if (!(warning.name === 'ExperimentalWarning' && warning.message.includes('SQLite')))
      for (const other of others) other(warning);
  });
}
