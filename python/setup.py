"""Builds the wheel with libdfkv.so inside.

The library is the one that $DFKV_LIB or $DFKV_BUILD names; without them it is built from the sources around
this folder with cmake. The version is that of the file VERSION.
"""
import os
import pathlib
import shutil
import subprocess
import sysconfig

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from wheel.bdist_wheel import bdist_wheel

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent


def given_library():
    """The path that the environment names, or None."""
    if os.environ.get("DFKV_LIB"):
        return pathlib.Path(os.environ["DFKV_LIB"])
    if os.environ.get("DFKV_BUILD"):
        build = pathlib.Path(os.environ["DFKV_BUILD"])
        return next((p for p in (build / "libdfkv.so", build / "lib/libdfkv.so") if p.exists()), build / "libdfkv.so")
    return None


def built_library():
    """Builds the library alone, as `make build` would, so that ccache may know it, and gives its path."""
    build = ROOT / "build/pip"
    subprocess.run(["cmake", "--preset", "release", "-B", build, "-DDFKV_TESTS=OFF"], cwd=ROOT, check=True)
    subprocess.run(["cmake", "--build", build, "--target", "dfkv", "-j", str(os.cpu_count() or 1)], check=True,
                   env={**os.environ, "CCACHE_NOHASHDIR": "1"})
    return build / "lib/libdfkv.so"


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        library = given_library() or built_library()
        if not library.exists():
            raise SystemExit(f"dfkv: no library at {library}")
        target = pathlib.Path(self.build_lib) / "dfkv/lib"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, target / "libdfkv.so")


class PlatformWheel(bdist_wheel):
    """For any Python 3 on this platform: the library is loaded with ctypes."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", sysconfig.get_platform().replace("-", "_").replace(".", "_")


class HasLibrary(Distribution):
    def has_ext_modules(self):
        return True


setup(
    version=(ROOT / "VERSION").read_text().strip(),
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    distclass=HasLibrary,
)
