// Unmodified clients, and the limits by size, with an application in a real guest.
'use strict';
const { before, after } = require('node:test');
const { guest } = require('./support');

before(() => guest.start(), { timeout: 300_000 });
after(() => guest.stop());

require('./clients');
require('./limits');
