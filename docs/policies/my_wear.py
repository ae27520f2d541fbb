"""Wear levelling: the least worn free block first, and cold data goes to the most worn one."""

from nandlab.policy import WearLeveling, WearView


class MyWear(WearLeveling):
    """Does what the built-in `static` does, but for the order of equals."""

    def allocate(self, view: WearView) -> int:
        return int(view.free[view.free_erase_counts.argmin()])

    def level(self, view: WearView) -> tuple[int, int] | None:
        coldest = view.used_erase_counts.argmin()
        worn = view.free_erase_counts.argmax()
        apart = int(view.free_erase_counts[worn]) - int(view.used_erase_counts[coldest])
        if apart <= view.threshold:
            return None
        return int(view.used[coldest]), int(view.free[worn])
