// SPDX-License-Identifier: MIT

import { unix } from '../contract/transport/adapters.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(unix);
