// SPDX-License-Identifier: MIT

import { contract } from '../contract/transport/suite.mjs';
import { sse } from '../contract/transport/sse.mjs';

contract(sse);
