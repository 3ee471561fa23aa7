// SPDX-License-Identifier: MIT

import { https } from '../contract/transport/secure.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(https);
