// SPDX-License-Identifier: MIT

import { contract } from '../contract/transport/suite.mjs';
import { wss } from '../contract/transport/websocket.mjs';

contract(wss);
