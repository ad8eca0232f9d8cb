/**
 * Entry point of the page: every suite of this room, those of the crypto against the provider that
 * browsers have.
 */
import type { CryptoProvider } from '../crypto/index.ts';
import type { Tool } from '../../testkit/assertions.ts';
import { exposeSuites } from '../../testkit/browsers/page-suites.ts';
import { apiKeys } from './crypto/suites/api-keys.ts';
import { armoredForms } from './crypto/suites/armored-forms.ts';
import { containers } from './crypto/suites/containers.ts';
import { detached } from './crypto/suites/detached.ts';
import { fileKeys } from './crypto/suites/file-keys.ts';
import { flow } from './crypto/suites/flow.ts';
import { golden } from './crypto/suites/golden.ts';
import { hostileHeaders } from './crypto/suites/hostile-headers.ts';
import { hostilePayloads } from './crypto/suites/hostile-payloads.ts';
import { hostileStanzas } from './crypto/suites/hostile-stanzas.ts';
import { hpke } from './crypto/suites/hpke.ts';
import { keys } from './crypto/suites/keys.ts';
import { passwords } from './crypto/suites/passwords.ts';
import { postQuantum } from './crypto/suites/post-quantum.ts';
import { properties } from './crypto/suites/properties.ts';
import { ranges } from './crypto/suites/ranges.ts';
import { recognition } from './crypto/suites/recognition.ts';
import { resumedPayloads } from './crypto/suites/resumed-payloads.ts';
import { rewrapping } from './crypto/suites/rewrapping.ts';
import { testkit } from './crypto/suites/testkit.ts';
import { wycheproof } from './crypto/suites/wycheproof.ts';
import { cars } from './ipfs/suites/cars.ts';
import { cids } from './ipfs/suites/cids.ts';
import { files } from './ipfs/suites/files.ts';
import { hashingStreams } from './ipfs/suites/hashing-streams.ts';
import { trees } from './ipfs/suites/trees.ts';
import { writtenCars } from './ipfs/suites/written-cars.ts';
import { links } from './link/suites/links.ts';
import { details } from './link/suites/details.ts';
import { parcels } from './link/suites/parcels.ts';

const suites: Record<string, (tool: Tool, provider: CryptoProvider) => void> = {
  apiKeys,
  armoredForms,
  cars,
  cids,
  containers,
  detached,
  fileKeys,
  files,
  flow,
  golden,
  hashingStreams,
  hostileHeaders,
  hostilePayloads,
  hostileStanzas,
  hpke,
  keys,
  links,
  details,
  parcels,
  passwords,
  postQuantum,
  properties,
  ranges,
  recognition,
  resumedPayloads,
  rewrapping,
  testkit,
  trees,
  writtenCars,
  wycheproof,
};

exposeSuites(suites);
