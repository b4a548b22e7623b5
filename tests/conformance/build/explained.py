"""Differences between us and buildah that are meant, one reason each: (case or image, difference, why). A row that no longer
occurs fails the test, as does a difference that no row has. `*` stands for any text. BuildKit, where it is named, is what
Dockerfiles are mostly written for."""

SET_ID = "buildah takes set-id bits away from files of the context; BuildKit keeps them, as we do"
LINK = "we write through a link that is the destination itself, as BuildKit does; buildah puts the file in its place"
INNER = "we keep a link to a directory where a directory is copied (as /bin of a merged /usr); BuildKit refuses, buildah replaces it"
CHOWN_TAR = "--chown counts for what an archive holds, as in BuildKit since 0.23; buildah leaves the archive's owners"
TAR_TOP = "the destination keeps its mode and owner whatever the archive says of ./, as in BuildKit"
PORTS = "ranges are written out and protocols are in lower case, as BuildKit does"

EXPLAINED = [
    ("copy-modes", "/t/copy-modes-one/suid: mode 4755, buildah 0755", SET_ID),
    ("copy-modes", "/t/copy-modes/both: mode 6711, buildah 0711", SET_ID),
    ("copy-modes", "/t/copy-modes/sgid: mode 2775, buildah 0775", SET_ID),
    ("copy-modes", "/t/copy-modes/suid: mode 4755, buildah 0755", SET_ID),
    ("copy-all", "/t/copy-all/copy-modes/modes/both: mode 6711, buildah 0711", SET_ID),
    ("copy-all", "/t/copy-all/copy-modes/modes/sgid: mode 2775, buildah 0775", SET_ID),
    ("copy-all", "/t/copy-all/copy-modes/modes/suid: mode 4755, buildah 0755", SET_ID),
    ("copy-link-to-file", "/t/copy-link-to-file/link: *", LINK),
    ("copy-link-to-file", "/t/copy-link-to-file/real: content 'a\\n', buildah 'old\\n'", LINK),
    ("copy-link-to-nothing", "/t/copy-link-to-nothing/missing: type file, buildah dir", LINK),
    ("copy-link-to-nothing", "/t/copy-link-to-nothing/missing: mode 0644, buildah 0755", LINK),
    ("copy-link-to-nothing", "/t/copy-link-to-nothing/missing: content 'a\\n', buildah none", LINK),
    ("copy-link-to-nothing", "/t/copy-link-to-nothing/missing/a.txt: only buildah: *", LINK),
    ("copy-over-inner-link", "/t/copy-over-inner-link/real/x: only ours: file 0644 0:0 'x\\n'", INNER),
    ("copy-over-inner-link", "/t/copy-over-inner-link/sub: *", INNER),
    ("copy-over-inner-link", "/t/copy-over-inner-link/sub/x: only buildah: *", INNER),
    ("add-archive-owners", "/t/add-archive-owners/chown: mode 0755, buildah 0700", TAR_TOP),
    ("add-archive-owners", "/t/add-archive-owners/chown: owner 1000:2000, buildah 9:9", TAR_TOP),
    ("add-archive-owners", "/t/add-archive-owners/plain: mode 0755, buildah 0700", TAR_TOP),
    ("add-archive-owners", "/t/add-archive-owners/plain: owner 0:0, buildah 9:9", TAR_TOP),
    ("add-archive-owners", "/t/add-archive-owners/chown/*: owner 1000:2000, buildah *", CHOWN_TAR),
    ("volume", "/t/volume/second: only buildah: dir 0755 0:0", "buildah makes directories for volumes; BuildKit does not, as we do"),
    ("volume", "/t/volume/third: only buildah: dir 0755 0:0", "buildah makes directories for volumes; BuildKit does not, as we do"),
    ("shell", "Cmd: ['/bin/busybox', 'ash', '-e', '-c', 'sleep 3600'], buildah ['/bin/sh', '-c', 'sleep 3600']",
     "SHELL is for CMD and ENTRYPOINT as well as for RUN, by its documentation; buildah has /bin/sh there"),
    ("config-ports",
     "ExposedPorts: ['53/udp', '7000/tcp', '7001/tcp', '7002/tcp', '8080/tcp', '8081/udp', '9090/tcp'], "
     "buildah ['53/UDP', '7000-7002/tcp', '8080/tcp', '8081/udp', '9090/tcp']", PORTS),
]
