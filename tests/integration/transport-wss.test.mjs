// SPDX-License-Identifier: MIT

import { wss } from '../contract/transport/secure.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(wss);
