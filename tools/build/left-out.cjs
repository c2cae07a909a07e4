// Stands for packages that are loaded by a library and used by none of the parts that we use.
module.exports = {};
