/**
 * Linters, generators of clients and a fuzzer on the API's description; the clients talk to the
 * service itself.
 */
import { execFile } from 'node:child_process';
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { programPath, withProgram } from '../../../testkit/programs/programs.ts';
import { adminToken, metricsToken, restoreToken, sharedService, type Service } from '../../../testkit/service.ts';
import { fillForFuzzing, startFuzzed } from './fuzzed-state.ts';
import { ci, long } from '../../../testkit/long-run.ts';

const root = resolve(import.meta.dirname, '../../..');

let service: Service;
let directory: string;
/** The files of the documents: that of users, and that of the operator. */
let description: string;
let operators: string;
const fuzzerConfig = join(import.meta.dirname, 'schemathesis.toml');
const operatorsPath = '/v1/operator/openapi.json';
beforeAll(async () => {
  service = await sharedService();
  directory = await mkdtemp(join(tmpdir(), 'sealpin-openapi-'));
  description = join(directory, 'openapi.json');
  operators = join(directory, 'operators.json');
  await writeFile(description, await (await fetch(`${service.url}/v1/openapi.json`)).text());
  await writeFile(operators, await (await fetch(`${service.url}${operatorsPath}`)).text());
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

/**
 * Runs a program beside the service, which lives in this process; throws what it printed when it
 * fails.
 */
async function run(
  program: string,
  args: readonly string[],
  o: { cwd?: string; env?: Record<string, string> } = {},
): Promise<string> {
  const path = programPath(program) ?? program;
  // Generators call formatters that are installed beside them.
  const PATH = `${dirname(path)}${delimiter}${process.env['PATH']}`;
  const options = { cwd: o.cwd ?? directory, env: { ...process.env, ...o.env, PATH }, maxBuffer: 2 ** 26 };
  return await promisify(execFile)(path, args, options).then(
    ({ stdout }) => stdout,
    ({ message, stdout }: { message: string; stdout?: string }) => {
      throw new Error(`${message}\n${stdout?.slice(-20_000)}`);
    },
  );
}

/** A folder for a client, and what its program must know. */
async function client(name: string): Promise<{ cwd: string; env: Record<string, string>; use: string }> {
  const cwd = join(directory, name);
  const use = join(cwd, `use.${name}`);
  await mkdir(cwd);
  await copyFile(join(import.meta.dirname, `generated/use.${name}`), use);
  return { cwd, env: { SERVICE: service.url, KEY: (await service.account()).apiKey }, use };
}

/**
 * Declares tests with a program that .ci/openapi-tools installs, since Debian has no package of it.
 * @param form the shortest that has them: others do not even look for the program
 */
function withTool(form: 'ci' | 'long', program: string, tests: () => void, probe = '--version'): void {
  if (form === 'ci' ? ci : long) withProgram(program, { probe: [probe], isOptional: true }, tests);
  else test.skip(`${program}: ${form === 'ci' ? 'CI' : 'the long form'} runs it`);
}

withTool('ci', 'redocly', () => {
  test('redocly has no error and no warning', async () => {
    for (const document of [description, operators]) {
      const report = JSON.parse(await run('redocly', ['lint', '--format=json', document])) as unknown;
      expect(report).toMatchObject({ totals: { errors: 0, warnings: 0, ignored: 0 }, problems: [] });
    }
  });
});

withTool('long', 'spectral', () => {
  test('spectral has no error, warning or hint', async () => {
    // It takes scopes from `flows` alone, as OpenAPI 3.0 had them.
    const rules = 'extends: ["spectral:oas"]\nrules: {oas3-operation-security-defined: off}\n';
    await writeFile(join(directory, 'rules.yaml'), rules);
    await run('spectral', ['lint', description, operators, '--ruleset=rules.yaml', '--fail-severity=hint']);
  });
});

withTool('ci', 'openapi-typescript', () => {
  test('openapi-typescript and openapi-fetch: stores, lists, reads and deletes, with types', async () => {
    const { cwd, env, use } = await client('mts');
    await symlink(resolve(dirname(programPath('openapi-typescript') ?? ''), '..'), join(cwd, 'node_modules'));
    await run('openapi-typescript', [description, '--output', 'api.d.ts'], { cwd });
    await run('openapi-typescript', [operators, '--output', 'operators.d.ts'], { cwd });
    const compilerOptions = {
      strict: true,
      noEmit: true,
      // The declarations of its libraries are checked in the long form.
      skipLibCheck: !long,
      module: 'nodenext',
      allowImportingTsExtensions: true,
      types: ['node'],
      typeRoots: [join(root, 'node_modules/@types')],
    };
    await writeFile(
      join(cwd, 'tsconfig.json'),
      JSON.stringify({ compilerOptions, files: [use, join(cwd, 'operators.d.ts')] }),
    );
    await run(join(root, 'node_modules/.bin/tsc'), ['--project', cwd]);
    await run(process.execPath, [use], { cwd, env });
  });
});

withTool('long', 'openapi-python-client', () => {
  test('openapi-python-client: stores, lists, reads and deletes, and leaves nothing out', async () => {
    const { cwd, env, use } = await client('py');
    // The types of a chunk of tus and of a CAR mean bytes to no generator by themselves.
    const bytes = 'application/octet-stream';
    await writeFile(
      join(cwd, 'config.yaml'),
      `content_type_overrides: {application/offset+octet-stream: ${bytes}, application/vnd.ipld.car: ${bytes}}\n`,
    );
    const args = ['--path', description, '--meta', 'none', '--output-path', 'sealpin', '--config', 'config.yaml'];
    await run('openapi-python-client', ['generate', ...args, '--fail-on-warning'], { cwd });
    await run(join(dirname(programPath('openapi-python-client') ?? ''), 'python'), [use], { cwd, env });
  });
});

// It is written in Java, and what it makes is built with Go.
const canBuild = programPath('go') !== undefined && programPath('java') !== undefined;
withTool(
  'long',
  'openapi-generator-cli',
  () => {
    test.runIf(canBuild)('openapi-generator for Go: stores, lists, reads and deletes (Java, Go)', async () => {
      const { cwd, env } = await client('go');
      const properties = '--additional-properties=packageName=sealpin,withGoMod=false';
      const args = [
        '-i',
        description,
        '-g',
        'go',
        '-o',
        'sealpin',
        '--global-property=apiTests=false,modelTests=false',
      ];
      await run('openapi-generator-cli', ['generate', ...args, properties], { cwd });
      await writeFile(join(cwd, 'go.mod'), 'module client\n\ngo 1.22\n');
      const offline = { GOPROXY: 'off', GOFLAGS: '-mod=mod' };
      await run('go', ['vet', './...'], { cwd, env: offline });
      await run('go', ['run', '.'], { cwd, env: { ...env, ...offline } });
    });
  },
  'version',
);

type Parameter = { $ref?: string; name: string; in: string };
type Described = {
  paths: Record<string, Record<string, { operationId: string; parameters?: Parameter[] }>>;
  components: { parameters: Record<string, Parameter> };
};

/** The parameters of each operation of a document, by operationId. */
async function parametersIn(file: string): Promise<[string, string[]][]> {
  const { paths, components } = JSON.parse(await readFile(file, 'utf8')) as Described;
  const whole = (each: Parameter): Parameter => components.parameters[each.$ref?.split('/').at(-1) ?? ''] ?? each;
  const textOf = (each: Parameter): string => `${whole(each).in}.${whole(each).name}`;
  const operations = Object.values(paths).flatMap((path) => Object.values(path));
  return operations.map(({ operationId, parameters = [] }) => [operationId, parameters.map((each) => textOf(each))]);
}

test('schemathesis.toml names operations and parameters that there are', async () => {
  const known = new Map([...(await parametersIn(description)), ...(await parametersIn(operators))]);
  const entries = (await readFile(fuzzerConfig, 'utf8')).split(/^\[\[operations\]\]$/m).slice(1);
  const unknown = entries.flatMap((entry) => {
    const ids = JSON.parse(/^include-operation-id = (.*)$/m.exec(entry)?.[1] ?? '[]') as string | string[];
    const names = Array.from(entry.matchAll(/^parameters\."((?:path|query|header)\..*?)"/gm), ([, name = '']) => name);
    return [ids].flat().flatMap((id) => {
      if (!known.has(id)) return [id];
      return names.filter((name) => known.get(id)?.includes(name) !== true).map((name) => `${id} ${name}`);
    });
  });
  expect(unknown).toEqual([]);
  expect(entries.length).toBeGreaterThan(20);
});

withTool('long', 'schemathesis', () => {
  test.each(['/v1/openapi.json', operatorsPath])(
    'schemathesis finds nothing in %s, and is refused nowhere for want of a key',
    async (path) => {
      const dir = await mkdtemp(join(directory, 'fuzzed-'));
      const fuzzed = await startFuzzed(dir);
      try {
        const config = join(dir, 'schemathesis.toml');
        await copyFile(fuzzerConfig, config);
        const apiKey = await fillForFuzzing(fuzzed.url, dir);
        const hooks = join(import.meta.dirname, 'media_types.py');
        const keys = {
          API_KEY: apiKey,
          ADMIN_TOKEN: adminToken,
          METRICS_TOKEN: metricsToken,
          RESTORE_TOKEN: restoreToken,
        };
        const args = ['--config-file', config, 'run', `${fuzzed.url}${path}`, '--max-examples=100', '--no-color'];
        await run('schemathesis', args, { cwd: dir, env: { ...keys, SCHEMATHESIS_HOOKS: hooks } });
      } finally {
        await fuzzed.close();
      }
    },
  );
});
