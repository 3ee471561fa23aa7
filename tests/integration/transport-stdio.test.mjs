// SPDX-License-Identifier: MIT

import { test } from 'node:test';

import { stdio } from '../contract/transport/adapters.mjs';
import { contract } from '../contract/transport/suite.mjs';

contract(stdio, (name, body) => test(name, body));
