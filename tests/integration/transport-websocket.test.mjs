// SPDX-License-Identifier: MIT

import { test } from 'node:test';

import { contract } from '../contract/transport/suite.mjs';
import { websocket } from '../contract/transport/websocket.mjs';

contract(websocket, (name, body) => test(name, body));
