/** The machine of a run: without it no figure means anything. */
import { execFileSync } from 'node:child_process';
import { availableParallelism, cpus, loadavg } from 'node:os';
import { summarize } from './figure.ts';

/** Switches SHA instructions off: OpenSSL and BoringSSL (OPENSSL_ia32cap(3)), Go (internal/cpu). */
export const withoutShaInstructions: Readonly<Record<string, string>> = {
  OPENSSL_ia32cap: ':~0x20000000',
  GODEBUG: 'cpu.sha=off',
};

/** Times in ms: 25 times the SHA-256 of 16 MiB, and AES-256-GCM of as much. */
const program = `
  const { hash, createCipheriv } = require('node:crypto');
  const bytes = Buffer.alloc(2 ** 24, 1);
  const times = { sha: [], aes: [] };
  for (let round = 0; round < 25; round += 1) {
    let begun = performance.now();
    hash('sha256', bytes);
    times.sha.push(performance.now() - begun);
    begun = performance.now();
    createCipheriv('aes-256-gcm', Buffer.alloc(32), Buffer.alloc(12)).update(bytes);
    times.aes.push(performance.now() - begun);
  }
  console.log(JSON.stringify(times));
`;

/** Describes the processor, its load, its speed, and by how much the same work varies. */
export function describeMachine(): string {
  const plain = timesWith({});
  const without = timesWith(withoutShaInstructions);
  const speed = (times: readonly number[]): string => (16_000 / summarize(times).median).toFixed(0);
  const { median, low } = summarize(plain.sha);
  const slower = plain.sha.toSorted((a, b) => a - b)[Math.floor(plain.sha.length * 0.9)] ?? low;
  return (
    `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? 'unknown processor'}, load ` +
    `${loadavg()[0]?.toFixed(1)}; ` +
    `SHA-256 ${speed(plain.sha)} MiB/s, ${speed(without.sha)} without its instructions; ` +
    `AES-256-GCM ${speed(plain.aes)} MiB/s; ` +
    `noise: of ${plain.sha.length} equal runs the median takes ${percent(median / low)} longer than the fastest, ` +
    `one in ten ${percent(slower / low)}`
  );
}

function timesWith(env: Readonly<Record<string, string>>): { sha: number[]; aes: number[] } {
  const text = execFileSync(process.execPath, ['-e', program], { encoding: 'utf8', env: { ...process.env, ...env } });
  return JSON.parse(text) as { sha: number[]; aes: number[] };
}

function percent(ratio: number): string {
  return `${((ratio - 1) * 100).toFixed(0)} %`;
}
