/** The text format of Prometheus (prometheus.io/docs/instrumenting/exposition_formats). */

/** The media type of the format. */
export const expositionType = 'text/plain; version=0.0.4; charset=utf-8';

/** A metric; `labels` as `labelsOf` writes them, `suffix` of a sample of a summary. */
export type Metric = {
  name: string;
  help: string;
  type: 'counter' | 'gauge' | 'summary';
  samples: readonly { suffix?: '_sum' | '_count'; labels?: string; value: number }[];
};

/** Labels as the format has them between braces, in the order given. */
export function labelsOf(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${escaped(value).replaceAll('"', '\\"')}"`)
    .join(',');
}

/** Writes metrics; one without samples is left out. */
export function exposition(metrics: readonly Metric[]): string {
  return metrics
    .filter(({ samples }) => samples.length > 0)
    .map(({ name, help, type, samples }) => {
      const lines = samples.map(
        ({ suffix = '', labels = '', value }) => `${name}${suffix}${labels === '' ? '' : `{${labels}}`} ${value}\n`,
      );
      return `# HELP ${name} ${escaped(help)}\n# TYPE ${name} ${type}\n${lines.join('')}`;
    })
    .join('');
}

function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
}
