// SPDX-License-Identifier: MIT

import { stdio } from '../contract/transport/adapters.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(stdio);
