// SPDX-License-Identifier: MIT

import { test } from 'node:test';

import { http } from '../contract/transport/adapters.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(http, (name, body) => test(name, body));
