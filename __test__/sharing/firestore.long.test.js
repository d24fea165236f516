// Runs the tests of firestore.test.js at full size.

import "./firestore.test.js";
