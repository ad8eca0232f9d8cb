/**
 * `open.html`: one file that opens containers, CARs and backups from the disk. The same source
 * gives the same bytes.
 */
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { brotliDecompressSync } from 'node:zlib';
import { packageRoot } from '../package-root.ts';
import { shippedFile } from './shipped-file.ts';
import { compact, compiledScript, fillTemplate } from './web-bundle.ts';

/** Its name in releases and backups. */
export const openerFile = 'open.html';
/** Its name in packages, compressed: it would be 4 % of them. */
export const packedOpener = 'open.html.br';

/** Builds it. @throws not_installed */
export async function bundleOpener(): Promise<string> {
  const room = join(packageRoot(), 'web');
  const read = (name: string) => readFile(join(room, name), 'utf8');
  const [template, passwordField, script, style] = await Promise.all([
    read('opener/open.html'),
    read('html/password-field.html'),
    compiledScript(room, { entry: 'opener/open-page.ts' }, undefined, {}),
    compiledScript(room, { entry: 'style.css' }, undefined, {}),
  ]);
  const hashOf = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(style)}`,
    "connect-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
  ].join('; ');
  // An end tag in the text would end the script.
  if (/<\/(?:script|style)/i.test(script + style)) throw new TypeError('a text ends its own element');
  const parts = { policy, passwordField: compact(passwordField) };
  const elements = { style: `<style>${style}</style>`, script: `<script>${script}</script>` };
  return `${fillTemplate(compact(template), { ...parts, ...elements })}
`;
}

/** The opener that this program was shipped with; in a checkout, that of the source as it is. */
export async function shippedOpener(): Promise<string> {
  const packed = await shippedFile(packedOpener);
  return packed === undefined ? bundleOpener() : brotliDecompressSync(packed).toString();
}
