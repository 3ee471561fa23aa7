// SPDX-License-Identifier: MIT

import { test } from 'node:test';

import { tcp } from '../contract/transport/adapters.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(tcp, (name, body) => test(name, body));
