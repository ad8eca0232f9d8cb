/** What runs in the page: every suite against the backend that browsers have. */
import type { Backend } from '../../crypto/index.ts';
import type { Tool } from '../../../testkit/assertions.ts';
import { exposeSuites } from '../../../testkit/page-suites.ts';
import { apiKeys } from './suites/api-keys.ts';
import { containers } from './suites/containers.ts';
import { detached } from './suites/detached.ts';
import { fileKeys } from './suites/file-keys.ts';
import { flow } from './suites/flow.ts';
import { golden } from './suites/golden.ts';
import { hostileHeaders } from './suites/hostile-headers.ts';
import { hostilePayloads } from './suites/hostile-payloads.ts';
import { hostileStanzas } from './suites/hostile-stanzas.ts';
import { hpke } from './suites/hpke.ts';
import { keys } from './suites/keys.ts';
import { passwords } from './suites/passwords.ts';
import { postQuantum } from './suites/post-quantum.ts';
import { properties } from './suites/properties.ts';
import { ranges } from './suites/ranges.ts';
import { recognition } from './suites/recognition.ts';
import { resumedPayloads } from './suites/resumed-payloads.ts';
import { rewrapping } from './suites/rewrapping.ts';
import { testkit } from './suites/testkit.ts';
import { wycheproof } from './suites/wycheproof.ts';
import { links } from '../link/suites/links.ts';
import { parcels } from '../link/suites/parcels.ts';

const suites: Record<string, (tool: Tool, backend: Backend) => void> = {
  apiKeys,
  containers,
  detached,
  fileKeys,
  flow,
  golden,
  hostileHeaders,
  hostilePayloads,
  hostileStanzas,
  hpke,
  keys,
  links,
  parcels,
  passwords,
  postQuantum,
  properties,
  ranges,
  recognition,
  resumedPayloads,
  rewrapping,
  testkit,
  wycheproof,
};

exposeSuites(suites);
