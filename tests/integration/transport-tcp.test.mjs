// SPDX-License-Identifier: MIT

import { tcp } from '../contract/transport/adapters.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(tcp);
