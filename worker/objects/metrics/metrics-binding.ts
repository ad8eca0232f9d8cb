/** The object `Metrics`, for those that call it. */
import type { Metrics } from './metrics.ts';

export type MetricsBinding = { METRICS: DurableObjectNamespace<Metrics> };

/** The one object that adds up what the isolates count. */
export function metricsOf(env: MetricsBinding): DurableObjectStub<Metrics> {
  return env.METRICS.getByName('service');
}
