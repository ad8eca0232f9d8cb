/** Changes to a wrangler.toml that keep its comments, which wrangler's own writer would not. */
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join, parse } from 'node:path';
import { failWrite } from '../cli/errno.ts';
import { isSealpinError, SealpinError } from '../shared/errors.ts';
import { kvBinding, listSetting, readConfiguration, type Configuration } from './configuration.ts';

/** Changes that setup writes. */
export type ConfigurationChanges = {
  name?: string | undefined;
  backends?: object[];
  /** A bucket to bind, which was not bound before. */
  bucket?: { binding: string; bucket: string } | undefined;
  publicGateway?: 'on' | 'off' | undefined;
  domain?: string | undefined;
  kvId?: string | undefined;
  serviceId?: string | undefined;
};

/**
 * Writes changes, and nothing where there are none. A placeholder for the KV namespace goes:
 * wrangler then creates one.
 * @returns whether the file is another one now
 * @throws misconfigured where the file has another form than the one that this project ships; it is
 * as before then
 */
export async function editConfiguration(path: string, changes: ConfigurationChanges): Promise<boolean> {
  const before = await readFile(path, 'utf8');
  const after = edited(before, readConfiguration(path), changes);
  if (after === before) return false;
  const { dir, name, ext } = parse(path);
  // wrangler knows the form of a configuration by the end of its name.
  const temporary = join(dir, `${name}.setup${ext}`);
  try {
    await writeFile(temporary, after).catch(failWrite(path));
    checkWritten(temporary, changes, path);
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  return true;
}

function edited(
  text: string,
  current: Configuration,
  { name, backends, bucket, publicGateway, domain, kvId, serviceId }: ConfigurationChanges,
): string {
  const setting = listSetting(current.vars);
  let out = text.replace(/^id = "0+"\n/m, '');
  if (name !== undefined) out = replaceLine(out, 'name', JSON.stringify(name));
  if (backends !== undefined) {
    // A literal string of TOML has no escapes.
    const json = JSON.stringify(backends).replaceAll("'", String.raw`\u0027`);
    out = replaceLine(out, setting, `'${json}'`);
  }
  if (publicGateway !== undefined) out = withLine(out, 'PUBLIC_GATEWAY', JSON.stringify(publicGateway));
  if (serviceId !== undefined) out = withLine(out, 'SERVICE_ID', JSON.stringify(serviceId));
  if (kvId !== undefined) out = out.replace(`binding = "${kvBinding}"\n`, `$&id = ${JSON.stringify(kvId)}\n`);
  if (bucket !== undefined) {
    const lines = `binding = ${JSON.stringify(bucket.binding)}\nbucket_name = ${JSON.stringify(bucket.bucket)}\n`;
    out = `${out.trimEnd()}\n\n[[r2_buckets]]\n${lines}`;
  }
  if (domain !== undefined && domain !== current.domain)
    out = `${out.trimEnd()}\n\n[[routes]]\npattern = ${JSON.stringify(domain)}\ncustom_domain = true\n`;
  return out;
}

/** Replaces the value in the first line that sets a key. */
function replaceLine(text: string, key: string, value: string): string {
  return text.replace(new RegExp(`^${key} = .*$`, 'm'), () => `${key} = ${value}`);
}

/** The same, in the table of variables where none does. */
function withLine(text: string, key: string, value: string): string {
  return new RegExp(`^${key} = `, 'm').test(text)
    ? replaceLine(text, key, value)
    : text.replace(/^\[vars\]\n/m, (line) => `${line}${key} = ${value}\n`);
}

/** @param temporary the file as it is written @param path where it will be */
function checkWritten(
  temporary: string,
  { name, backends, bucket, publicGateway, domain, kvId, serviceId }: ConfigurationChanges,
  path: string,
): void {
  let written: Configuration | undefined;
  try {
    written = readConfiguration(temporary);
  } catch (error) {
    if (!isSealpinError(error, 'misconfigured')) throw error;
  }
  const setting = written === undefined ? 'BACKENDS' : listSetting(written.vars);
  const rows = [
    ['name', name, written?.name],
    ['domain', domain, written?.domain],
    ['kvId', kvId, written?.kvId],
    ['bucket', bucket?.bucket, written?.buckets.find(({ binding }) => binding === bucket?.binding)?.bucket],
    ['SERVICE_ID', serviceId, written?.vars['SERVICE_ID']],
    ['PUBLIC_GATEWAY', publicGateway, written?.vars['PUBLIC_GATEWAY']],
    [setting, backends && JSON.stringify(backends), JSON.stringify(JSON.parse(written?.vars[setting] ?? '[]'))],
  ] as const;
  const wrong = rows.flatMap(([key, expected, found]) => (expected === undefined || expected === found ? [] : [key]));
  if (wrong.length > 0)
    throw new SealpinError('misconfigured', `${path} has a form that setup cannot change; it is as before`, {
      hint: `set ${wrong.join(', ')} yourself, then run npm run setup again`,
    });
}
