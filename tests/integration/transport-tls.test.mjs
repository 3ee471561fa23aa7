// SPDX-License-Identifier: MIT

import { tls } from '../contract/transport/secure.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(tls);
