import { onEveryProvider } from '../../../../testkit/crypto-providers.ts';
import { armoredForms } from '../suites/armored-forms.ts';

onEveryProvider(armoredForms);
