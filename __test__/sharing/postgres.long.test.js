// Runs the tests of postgres.test.js at full size.

import "./postgres.test.js";
