// SPDX-License-Identifier: MIT

import { http } from '../contract/transport/adapters.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(http);
