SUMMARY = "How late this Linux machine is, why, and what to use instead"
DESCRIPTION = "The command punctual, and the libraries that it loads into programs so that they wait precisely"
SECTION = "devel"
LICENSE = "MIT | Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE-MIT;md5=59121ad0c13420fabb43e1b703ef3993 \
                    file://LICENSE-APACHE;md5=3b83ef96387f14655fc854ddc3c6bd57"

# The project has no address yet: put a clone beside this recipe as `files/punctual`.
SRC_URI = "file://punctual"
# scarthgap unpacks in WORKDIR, later releases in UNPACKDIR.
UNPACKDIR ??= "${WORKDIR}"
S = "${UNPACKDIR}/punctual"

# Layers: openembedded-core from scarthgap on, and meta-rust or a release whose Rust is 1.88 or later. The crates of Cargo.lock:
# `bitbake -c update_crates punctual` writes punctual-crates.inc.
inherit cargo cargo-update-recipe-crates
require ${BPN}-crates.inc

CARGO_BUILD_FLAGS += "--package punctual-cli --package punctual-preload --package punctual-mpi"

# The manual and the completions are not installed: `cargo xtask install` generates them, with a program for the build machine.
do_install() {
    install -D -m 0755 ${B}/target/${CARGO_TARGET_SUBDIR}/punctual ${D}${bindir}/punctual
    install -d ${D}${nonarch_libdir}/punctual
    install -m 0644 ${B}/target/${CARGO_TARGET_SUBDIR}/libpunctual_preload.so ${D}${nonarch_libdir}/punctual/
    install -m 0644 ${B}/target/${CARGO_TARGET_SUBDIR}/libpunctual_mpi.so ${D}${nonarch_libdir}/punctual/
}

# The libraries are found beside the command (../lib/punctual). Programs load them by LD_PRELOAD: they have no version in their names.
FILES:${PN} += "${nonarch_libdir}/punctual"
FILES_SOLIBSDEV = ""
INSANE_SKIP:${PN} += "already-stripped"
