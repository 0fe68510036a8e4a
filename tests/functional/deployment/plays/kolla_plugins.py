"""Have Kolla read a kolla-build.conf and pack the plugins of base images.

Arguments: the file, and a directory that gets a tar file for each image.
"""

import pathlib
import shutil
import sys

from kolla.common import config
from kolla.image import kolla_worker
from kolla.image import tasks
from oslo_config import cfg

IMAGES = ("nova-base", "neutron-base")


def main(file, target):
    """Do what kolla-build does before it calls an engine."""
    conf = cfg.ConfigOpts()
    words = ["--config-file", file, "--template-only", "--base", "debian"]
    words += ["--work-dir", f"{target}/plugins", *IMAGES]
    config.parse(conf, words, prog="kolla-build")
    worker = kolla_worker.KollaWorker(conf)
    worker.setup_working_dir()
    worker.find_dockerfiles()
    worker.create_dockerfiles()
    worker.build_image_list()
    for image in worker.images:
        if image.name not in IMAGES:
            continue
        name = f"{image.name}-plugin-sriov-rt"
        (plugin,) = (each for each in image.plugins if each["name"] == name)
        task = tasks.BuildTask(conf, image, None)
        pathlib.Path(image.path).mkdir(parents=True, exist_ok=True)
        packed = task.process_source(image, plugin)
        shutil.copy(packed, pathlib.Path(target, f"{image.name}.tar"))


if __name__ == "__main__":
    main(*sys.argv[1:])
