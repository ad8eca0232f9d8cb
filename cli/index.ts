#!/usr/bin/env node
/** The entry point. It has no static imports, so that its first lines run first. */

// Other users can read the arguments of a process, and one of them may be a password.
process.title = 'sealpin';

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 13)) {
  process.stderr.write(
    `sealpin: error: sealpin needs Node 22.13 or newer; this is Node ${process.versions.node}\n` +
      'sealpin: hint: install a newer one from https://nodejs.org/, or use ./sealpin in a checkout, which has its own\n',
  );
  process.exit(1);
}

const { runProcess } = await import('./run-process.ts');
await runProcess();
