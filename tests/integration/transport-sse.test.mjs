// SPDX-License-Identifier: MIT

import { test } from 'node:test';

import { contract } from '../contract/transport/suite.mjs';
import { sse } from '../contract/transport/sse.mjs';

contract(sse, (name, body) => test(name, body));
