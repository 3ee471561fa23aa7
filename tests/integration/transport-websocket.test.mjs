// SPDX-License-Identifier: MIT

import { contract } from '../contract/transport/suite.mjs';
import { websocket } from '../contract/transport/websocket.mjs';

contract(websocket);
