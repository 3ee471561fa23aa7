// SPDX-License-Identifier: MIT

import { test } from 'node:test';

import { unix } from '../contract/transport/adapters.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(unix, (name, body) => test(name, body));
